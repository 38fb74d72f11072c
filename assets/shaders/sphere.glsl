#version 330
// The target and the drafters: calm satin bodies with an inner light that rises with `glow`.
// A body is a ball, or a disc where it is squashed; its roundness may have steps; grooves part
// it into layers. GHOST: one can see through it.
#include "scene.glsl"

#ifdef VERTEX
in vec3 direction;  // unit sphere
in vec3 center;
in float radius;
in float levels;
in float squash;
const float SMOOTH = 20.0;  // steps that the mesh could not show
const float PI = 3.14159265;

// The direction rounded to `levels` steps from pole to pole, and twice as many around.
vec3 stepped() {
    if (levels < 1.0 || levels > SMOOTH) return direction;
    float step_ = PI / levels;
    float polar = round(acos(clamp(direction.y, -1.0, 1.0)) / step_) * step_;
    float around = round(atan(direction.z, direction.x) / step_) * step_;
    return vec3(sin(polar) * cos(around), cos(polar), sin(polar) * sin(around));
}

// Place on the unit body: where r^n + |y|^n = 1. A ball has n = 2, a disc's rim is fuller.
vec3 unit_place(float n) {
    vec3 way = stepped();
    float r = length(way.xz), y = abs(way.y);
    return way * pow(pow(r, n) + pow(y, n), -1.0 / n);
}

vec3 stretched() { return vec3(1.0, 1.0 - squash, 1.0); }

#ifdef DEPTH_ONLY
void main() {
    float n = squash > 0.0 ? 4.0 : 2.0;
    vec3 place = unit_place(n) * stretched();
    gl_Position = light_projection * vec4(center + place * radius, 1.0);
}
#else
in vec4 color;
in float glow;
in float unlit;
in float layers;
out vec3 world, surface;
out float height;  // 0..1 from below
flat out vec4 body;
flat out vec4 state;  // glow, unlit, layers, levels
void main() {
    float n = squash > 0.0 ? 4.0 : 2.0;
    vec3 place = unit_place(n);
    float r = length(place.xz);
    vec2 slope = vec2(pow(r, n - 1.0), pow(abs(place.y), n - 1.0) * sign(place.y));
    vec2 outward = r > 0.0001 ? place.xz / r : vec2(0.0);
    world = center + place * stretched() * radius;
    surface = vec3(outward.x * slope.x, slope.y / (1.0 - squash), outward.y * slope.x);
    height = 0.5 + 0.5 * place.y;
    body = color;
    state = vec4(glow, unlit, layers, levels > SMOOTH ? 0.0 : levels);
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
in float height;
flat in vec4 body;
flat in vec4 state;
layout(location = 0) out vec4 result;

// How deep in a groove between two layers (0..1); grooves finer than the picture vanish.
float groove(float pixel) {
    if (state.z < 1.5) return 0.0;
    float at = height * state.z;
    float from = abs(fract(at + 0.5) - 0.5);  // of a layer, to the nearest groove
    float wide = max(0.10, 0.7 * pixel * state.z);
    float faint = clamp(0.35 / max(pixel * state.z, 0.0001), 0.0, 1.0);
    return (1.0 - smoothstep(0.4 * wide, wide, from)) * min(faint, 1.0);
}

void main() {
    vec3 outward = normalize(surface);
    vec3 view = normalize(eye.xyz - world);
    if (state.w >= 1.0) {  // a facet is flat
        vec3 flat_ = cross(dFdx(world), dFdy(world));
        if (dot(flat_, flat_) > 1e-14) outward = normalize(flat_ * sign(dot(flat_, view)));
    }
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
    // Working: light from within, strongest in the middle, and a rim that takes part. It comes
    // from below, layer by layer.
    float layer = state.z < 1.5 ? height : (floor(height * state.z) + 0.5) / state.z;
    float light = state.x;
    if (state.y > 0.0) light *= smoothstep(0.0, 0.03, 1.0 - state.y - layer + 0.015);
    color += light * (mix(deep, body.rgb, core) * (0.25 + 1.75 * core) + pale * rim * 1.2);
    color *= 1.0 - 0.45 * groove(fwidth(height));
#ifdef GHOST
    float seen = body.a + 0.3 * (rim + light * core);
    result = vec4(color, 1.0) * min(seen, 1.0);
#else
    result = vec4(color, 1.0);
#endif
}
#endif
#endif
