#version 330
// The target and the drafter: calm satin bodies with an inner light that rises with `glow`.
#include "scene.glsl"

#ifdef VERTEX
in vec3 direction;  // unit sphere
in vec3 center;
in float radius;
#ifdef DEPTH_ONLY
void main() { gl_Position = light_projection * vec4(center + direction * radius, 1.0); }
#else
in vec4 color;
in float glow;
out vec3 world, surface;
flat out vec4 body;
flat out float light;
void main() {
    world = center + direction * radius;
    surface = direction;
    body = color;
    light = glow;
    gl_Position = view_projection * vec4(world, 1.0);
}
#endif
#endif

#ifdef FRAGMENT
#ifdef DEPTH_ONLY
void main() {}
#else
#include "lighting.glsl"
in vec3 world, surface;
flat in vec4 body;
flat in float light;
layout(location = 0) out vec4 result;
void main() {
    vec3 outward = normalize(surface);
    vec3 view = normalize(eye.xyz - world);
    float facing = max(dot(outward, view), 0.0);
    float sun = max(0.0, 0.35 + 0.65 * dot(outward, light_direction.xyz));
    float depth = facing * facing;
    vec3 color = body.rgb * (0.55 * ambient.rgb * (0.7 + 0.3 * outward.y) + 0.55 * key.rgb * sun * sun);
    color += environment(reflect(-view, outward), 0.35) * fresnel(facing, 0.05) * 0.8;
    float rim = pow(1.0 - facing, 2.5);
    color += body.rgb * rim * (0.30 + 1.1 * light);          // a lit edge, even at rest
    color += body.rgb * (0.10 + 1.5 * light) * depth * depth;  // light from within
    result = vec4(color, 1.0) * body.a;
}
#endif
#endif
