#version 330
// A band of light along a curve, turned to the viewer. It begins faint and grows to full light
// where it arrives, so that one sees which way it goes; it may end in an arrow's head. Curves that
// are parts of one way grow on from each other.
#include "scene.glsl"

#ifdef VERTEX
const float STEP = 1.0 / 48.0;  // of the mesh
const float SHAFT = 42.0 * STEP;
in vec2 place;  // 0..1 along, -1..1 across
in vec3 start;
in vec3 rise;
in vec3 fall;
in vec3 end;
in float width;
in float head;
in vec2 span;
in vec2 share;
in vec4 color;
out vec2 along;  // share of the way, and -1..1 across
flat out vec4 light;
void main() {
    // The last steps of the mesh are the arrow's head, the one before them its barbs.
    float neck = max(span.y - head, span.x);
    float tip = max((place.x - SHAFT) / (1.0 - SHAFT), 0.0);
    float s = mix(mix(span.x, neck, min(place.x / (SHAFT - STEP), 1.0)), span.y, tip), r = 1.0 - s;
    vec3 world = r * r * r * start + 3.0 * r * r * s * rise + 3.0 * r * s * s * fall + s * s * s * end;
    vec3 way = r * r * (rise - start) + 2.0 * r * s * (fall - rise) + s * s * (end - fall);
    vec3 side = cross(way, eye.xyz - world);
    float wide = head <= 0.0 || place.x < SHAFT - 0.5 * STEP ? 1.0 : 2.6 * (1.0 - tip);
    world += side * (place.y * width * wide / max(length(side), 0.0001));
    along = vec2(mix(share.x, share.y, s), place.y);
    light = color;
    gl_Position = view_projection * vec4(world, 1.0);
}
#endif

#ifdef FRAGMENT
in vec2 along;
flat in vec4 light;
layout(location = 0) out vec4 result;
void main() {
    float soft = max(fwidth(along.y), 0.25);
    float inside = smoothstep(0.0, soft, 1.0 - abs(along.y));
    float amount = light.a * inside * mix(0.42, 1.0, smoothstep(0.0, 0.75, along.x));
    result = vec4(light.rgb, 1.0) * amount;
}
#endif
