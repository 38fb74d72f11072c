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
    vec3 deep = body.rgb * body.rgb;  // light that has passed through the body is richer
    vec3 color = body.rgb * (0.30 * ambient.rgb * (0.55 + 0.45 * outward.y) + 0.45 * key.rgb * sun * sun);
    color += environment(reflect(-view, outward), 0.10) * fresnel(facing, 0.05);
    float rim = pow(1.0 - facing, 3.0);
    color += mix(body.rgb, vec3(1.0), 0.3) * rim * (0.35 + 1.3 * light);  // a lit edge, even at rest
    color += (0.05 * deep + 1.9 * light * depth * facing * mix(deep, body.rgb, depth));  // light from within
    result = vec4(color, 1.0) * body.a;
}
#endif
#endif
