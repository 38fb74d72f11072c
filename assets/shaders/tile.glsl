#version 330
// A token far back in the text: a flat patch of colour on the ground, gone with the haze.
#include "scene.glsl"
const float BORDER = 0.05;  // world units from tile to tile

#ifdef VERTEX
in vec2 place;  // -1..1
in vec3 center;
in vec2 half_extent;
in vec4 color;
out vec3 world;
out vec2 across;
flat out vec2 extent;
flat out vec4 ink;
void main() {
    extent = half_extent;
    across = place * half_extent;
    world = center + vec3(across.x, 0.0, across.y);
    ink = color;
    gl_Position = view_projection * vec4(world, 1.0);
    gl_Position.z -= 0.0002 * gl_Position.w;  // lies on the ground: win against it
}
#endif

#ifdef FRAGMENT
#include "lighting.glsl"
in vec3 world;
in vec2 across;
flat in vec2 extent;
flat in vec4 ink;
layout(location = 0) out vec4 result;
void main() {
    vec2 inset = extent - abs(across) - 0.5 * BORDER;
    vec2 inside = clamp(inset / max(fwidth(across), 0.0001) + 0.5, 0.0, 1.0);
    vec2 from = world.xz - focus.xz;
    float opacity = ink.a * inside.x * inside.y * exp(-dot(from, from) * 0.0035);
    vec3 up = vec3(0.0, 1.0, 0.0);
    vec3 light = ambient.rgb + key.rgb * (light_direction.y * shadow(world, up));
    result = vec4(ink.rgb * (light + lamp_light(world, up)), 1.0) * opacity;
}
#endif
