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
    float sun = max(0.0, 0.3 + 0.7 * dot(outward, light_direction.xyz));
    float rim = pow(1.0 - facing, 3.0);
    float core = facing * facing * facing;
    vec3 pale = mix(body.rgb, vec3(1.0), 0.2);
    vec3 deep = body.rgb * body.rgb;  // light that has come through the body is richer

    // At rest: porcelain, dark towards the floor, with a lit edge.
    vec3 color = pale * (0.32 * ambient.rgb * (0.6 + 0.4 * outward.y) + 0.5 * key.rgb * sun * sun);
    color += environment(reflect(-view, outward), 0.04) * fresnel(facing, 0.035);
    color += pale * rim * 0.30 + deep * core * 0.05;
    // Working: light from within, strongest in the middle, and a rim that takes part.
    color += light * (mix(deep, body.rgb, core) * (0.25 + 1.75 * core) + pale * rim * 1.2);
    result = vec4(color, 1.0) * body.a;
}
#endif
#endif
