#version 330
// A solid block: rounded, satin, filled from below, with a thin provenance line.
// CRACKED: hairlines run over it; costly where a GPU cannot skip them, so its own variant.
#include "scene.glsl"

#ifdef VERTEX
#include "rounded_box.glsl"
#ifdef DEPTH_ONLY
void main() {
    gl_Position = light_projection * vec4(center + turn(yaw) * local_position(), 1.0);
}
#else
in vec4 color;
in vec4 fill_color;
in vec4 edge_color;
in float fill;
in float crack;
out vec3 world, surface, local;
flat out vec3 extent;
flat out vec4 body, filled, edge;
flat out vec2 state;
void main() {
    mat3 axes = turn(yaw);
    local = local_position();
    world = center + axes * local;
    surface = axes * normal;
    extent = half_extent;
    body = color;
    filled = fill_color;
    edge = edge_color;
    state = vec2(fill, crack);
    gl_Position = view_projection * vec4(world, 1.0);
}
#endif
#endif

#ifdef FRAGMENT
#ifdef DEPTH_ONLY
void main() {}
#else
#include "lighting.glsl"
#include "edges.glsl"
#ifdef CRACKED
#include "cracks.glsl"
#endif
in vec3 world, surface, local;
flat in vec3 extent;
flat in vec4 body, filled, edge;
flat in vec2 state;
layout(location = 0) out vec4 result;
void main() {
    float level = (2.0 * state.x - 1.0) * extent.y;
    float pixel = max(fwidth(local.y), 0.0001);  // level on the top and bottom faces
    float below = state.x <= 0.0 ? 0.0
                : state.x >= 1.0 ? 1.0
                : clamp((level - local.y) / pixel + 0.5, 0.0, 1.0);
    float lid = smoothstep(0.5, 0.9, normalize(surface).y);  // turns as a whole, while it rises
    below = mix(below, smoothstep(0.0, 1.0, state.x), lid);
    vec3 albedo = mix(body.rgb, filled.rgb, below) * (1.0 - 0.24 * lid);  // words lie on it, too
    vec3 color = lit(world, normalize(surface), albedo, 0.45);
    if (state.x > 0.0 && state.x < 1.0) {
        float meniscus = exp(-abs(local.y - level) * 22.0);
        color += filled.rgb * (0.5 * meniscus * (1.0 - lid));
    }
#ifdef CRACKED
    color *= 1.0 - 0.85 * cracks(local, extent, state.y);
#endif
    float line = edge_line(extent - abs(local), 0.045) * edge.a;
    color = mix(color, edge.rgb * standing(world), line);
    result = vec4(color, 1.0);
}
#endif
#endif
