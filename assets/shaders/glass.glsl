#version 330
// Glass: low tint, bright edges, a fresnel rim. What is filled from below is MATTER, which is
// drawn with the solid blocks: it hides what is behind it, and lettering lies on it.
// The mesh holds every triangle twice: first the inside, then the outside of the same block,
// so one draw keeps the right order. CRACKED: hairlines run over it. Premultiplied output.
#include "scene.glsl"

#ifdef VERTEX
#include "rounded_box.glsl"
invariant gl_Position;  // pane and matter are two draws over the same depths
in float inner;  // 1: draw only where this side faces away from the eye
in vec4 color;
in vec4 fill_color;
in vec4 edge_color;
in float fill;
in float crack;
out vec3 world, surface, local;
flat out vec3 extent, eye_local;
flat out vec4 body, filled, edge;
flat out vec3 state;  // fill, crack, inner
void main() {
    mat3 axes = turn(yaw);
    local = local_position();
    world = center + axes * local;
    world.y = max(world.y, 0.006);  // its foot never fights with the ground
    surface = axes * normal;
    extent = half_extent;
    eye_local = transpose(axes) * (eye.xyz - center);
    body = color;
    filled = fill_color;
    edge = edge_color;
    state = vec3(fill, crack, inner);
    gl_Position = view_projection * vec4(world, 1.0);
}
#endif

#ifdef FRAGMENT
#include "lighting.glsl"
#include "edges.glsl"
#ifdef CRACKED
#include "cracks.glsl"
#endif
#ifdef FRAME
const float EDGE = 0.050;  // the verify box is mostly its frame
const bool EMPTY = true;   // its fill says whether it is open
const float OUTLINE = 0.006;   // width of an open one's lines, of the height of the picture
const float BEND = 0.08;       // at its edges a wall bends away by so much: rounded_box's bevel
#else
const float EDGE = 0.036;
const bool EMPTY = false;
const float OUTLINE = 0.0, BEND = 0.0;
#endif
in vec3 world, surface, local;
flat in vec3 extent, eye_local;
flat in vec4 body, filled, edge;
flat in vec3 state;
layout(location = 0) out vec4 result;

float level() {
    return state.x >= 1.0 ? 2.0 * extent.y : (2.0 * state.x - 1.0) * extent.y;
}

#ifdef MATTER
// The filled part, opaque. Seen over its rim from above, the back wall below the level is
// hidden by the surface of the filling: the ray meets that plane first, so it is lit as one.
void main() {
    bool inside = state.z > 0.5;
    if (gl_FrontFacing == inside || state.x <= 0.0 || local.y > level()) discard;
    vec3 toward = inside ? vec3(0.0, 1.0, 0.0) : normalize(surface);
    if (inside && eye_local.y < level()) discard;
    result = vec4(lit(world, toward, filled.rgb, 0.45), 1.0);
}
#else
void main() {
    bool inside = state.z > 0.5;
    if (gl_FrontFacing == inside) discard;
#ifdef FRAME
    if (!inside && state.x > 0.5) discard;  // an open box has no near walls
#endif
    vec3 outward = normalize(surface);
    vec3 toward = inside ? -outward : outward;
    vec3 view = normalize(eye.xyz - world);
    float facing = max(dot(toward, view), 0.0);
    float pixel = max(fwidth(local.y), 0.0001);  // level on the top and bottom faces
    float above = EMPTY || state.x <= 0.0 ? 1.0 : smoothstep(-0.5 * pixel, 0.5 * pixel, local.y - level());

    // The pane: a tint that thickens at grazing angles, as real glass does.
    float rim = pow(1.0 - facing, 3.0);
    float tint = above * body.a * (inside ? 0.45 : 0.75 + 0.9 * rim);
    vec3 color = body.rgb * (0.9 * ambient.rgb + 0.5 * key.rgb) * tint;
    float opacity = tint;
#ifndef PLAIN
    if (!inside) {
        float shine = fresnel(facing, 0.05) * clamp(body.a * 5.0, 0.0, 1.0);
        color += environment(reflect(-view, toward), 0.08) * shine;
    }
#endif
    if (!EMPTY && state.x > 0.0 && state.x < 1.0) {
        float meniscus = exp(-abs(local.y - level()) * 24.0);
        color += filled.rgb * (0.6 * meniscus);
        opacity = max(opacity, 0.5 * meniscus);
    }
#ifdef CRACKED
    float hairline = cracks(local, extent, state.y) * (inside ? 0.35 : 1.0);
    color += edge.rgb * hairline;
    opacity = max(opacity, 0.6 * hairline);
#endif
    float width = inside ? EDGE : whole_width(EDGE, local, extent, eye_local);
    float strength = inside ? 0.5 * above : 1.0;
    if (EMPTY && state.x > 0.5) {  // its outline is strong, what lies behind its contents is not
        float outline = smoothstep(-0.02, 0.02, round_the_corner(local, extent, eye_local));
        float pixel = fwidth(second_smallest(extent - abs(local)));
        width = mix(0.6 * EDGE, 0.6 * BEND + max(EDGE, OUTLINE * viewport.y * pixel), outline);
        strength = mix(0.35, 1.0, outline);
    }
    float line = edge_line(extent - abs(local), width) * edge.a * strength;
    color = mix(color, edge.rgb, line);
    opacity = mix(opacity, 1.0, 0.75 * line);
    result = vec4(color, opacity);
}
#endif
#endif
