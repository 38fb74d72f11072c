#version 330
// The dark where a block meets the ground: a soft rectangle, fading as the block lifts off.
#include "scene.glsl"
const float REACH = 0.42;  // world units past the block's foot

#ifdef VERTEX
in vec2 place;  // -1..1
in vec3 center;
in vec3 half_extent;
in vec4 color;
in float yaw;
out vec2 foot;
flat out vec2 extent;
flat out float strength;
void main() {
    float c = cos(yaw), s = sin(yaw);
    extent = half_extent.xz;
    foot = place * (extent + REACH);
    vec2 turned = vec2(c * foot.x + s * foot.y, c * foot.y - s * foot.x);
    float lift = max(center.y - half_extent.y, 0.0);
    float standing = clamp(0.5 + 0.5 * center.y / half_extent.y, 0.0, 1.0);  // not yet sunk
    strength = 0.55 * exp(-3.5 * lift) * (0.25 + 0.75 * color.a) * standing;
    gl_Position = view_projection * vec4(center.x + turned.x, 0.0, center.z + turned.y, 1.0);
    gl_Position.z -= 0.0003 * gl_Position.w;  // lies on the ground: win against it
}
#endif

#ifdef FRAGMENT
in vec2 foot;
flat in vec2 extent;
flat in float strength;
layout(location = 0) out vec4 result;
void main() {
    vec2 past = max(abs(foot) - extent + 0.06, 0.0);
    float fall = clamp(1.0 - length(past) / REACH, 0.0, 1.0);
    result = vec4(0.0, 0.0, 0.0, strength * fall * fall);
}
#endif
