#version 330
// From scene light to the picture's bytes: bloom, vignette, tone curve, sRGB, dither.
// SMOOTH: steps along edges are evened out, where the scene has one sample a pixel. Only what
// has edges is drawn so: the boxes around things, each pixel of them once (by a depth test).
// TRANSPARENT: the encoded colour times its coverage, so that panels blend over it rightly; whoever
// reads the picture divides again.
#ifdef VERTEX
#ifdef SMOOTH
#include "scene.glsl"
in vec3 place;  // -1 or 1 on each axis
in vec3 center;
in vec3 half_extent;
const float RIM = 2.5;  // pixels around a thing that belong to its edge
void main() {
    vec3 across = vec3(view_projection[0].y, view_projection[1].y, view_projection[2].y);
    float pixel = 2.0 * viewport.w * length(eye.xyz - center) / length(across);  // world units
    gl_Position = view_projection * vec4(center + place * (half_extent + RIM * pixel), 1.0);
    gl_Position.z = 0.0;
}
#else
in vec2 place;
void main() { gl_Position = vec4(place, 1.0, 1.0); }
#endif
#endif

#ifdef FRAGMENT
uniform sampler2D scene;
uniform sampler2D spill;
uniform float bloom;
uniform float vignette;
vec2 at;
layout(location = 0) out vec4 result;

const float SHOULDER = 0.76;  // up to here a colour is shown as it is
const float DESATURATION = 0.15;

// The highlight half of Khronos' "PBR neutral" curve: below the shoulder the identity, so a
// theme's colours read as themselves; above it, brightness is compressed and turns to white.
vec3 tone(vec3 color) {
    float peak = max(color.r, max(color.g, color.b));
    if (peak < SHOULDER) return color;
    float room = 1.0 - SHOULDER;
    float squeezed = 1.0 - room * room / (peak + room - SHOULDER);
    color *= squeezed / peak;
    float white = 1.0 - 1.0 / (DESATURATION * (peak - squeezed) + 1.0);
    return mix(color, vec3(squeezed), white);
}

vec3 encode(vec3 linear) {
    vec3 low = linear * 12.92;
    vec3 high = 1.055 * pow(max(linear, vec3(0.0031308)), vec3(1.0 / 2.4)) - 0.055;
    return mix(low, high, step(vec3(0.0031308), linear));
}

#ifdef SMOOTH
// Brightness as the eye sees it, nearly.
float seen(vec4 light) { return sqrt(min(dot(light.rgb, vec3(0.30, 0.59, 0.11)), 1.0)); }

// The light here; on an edge, averaged along it (after FXAA by Timothy Lottes).
vec4 gathered() {
    ivec2 here = ivec2(gl_FragCoord.xy), last = textureSize(scene, 0) - 1;
    vec4 own = texelFetch(scene, here, 0);
#ifndef TRANSPARENT
    if (own.a < 0.99) return own;  // lettering is smooth already and marked by its coverage
#endif
    ivec2 low = max(here - 1, 0), high = min(here + 1, last);
    float south_west = seen(texelFetch(scene, low, 0));
    float south_east = seen(texelFetch(scene, ivec2(high.x, low.y), 0));
    float north_west = seen(texelFetch(scene, ivec2(low.x, high.y), 0));
    float north_east = seen(texelFetch(scene, high, 0));
    float middle = seen(own);
    float least = min(middle, min(min(south_west, south_east), min(north_west, north_east)));
    float most = max(middle, max(max(south_west, south_east), max(north_west, north_east)));
    if (most - least < max(0.03, 0.12 * most)) return own;
    vec2 along = vec2((south_west + south_east) - (north_west + north_east),
                      (south_west + north_west) - (south_east + north_east));
    float little = max((south_west + south_east + north_west + north_east) * 0.03, 0.008);
    float stretch = 1.0 / (min(abs(along.x), abs(along.y)) + little);
    along = clamp(along * stretch, -6.0, 6.0) / vec2(textureSize(scene, 0));
    vec4 near = 0.5 * (min(texture(scene, at - along / 6.0), 1.0)
                       + min(texture(scene, at + along / 6.0), 1.0));
    vec4 far = 0.5 * near + 0.25 * (min(texture(scene, at - along / 2.0), 1.0)
                                    + min(texture(scene, at + along / 2.0), 1.0));
    float level = seen(far);
    return level < least || level > most ? near : far;
}
#endif

void main() {
    at = gl_FragCoord.xy / vec2(textureSize(scene, 0));
#ifdef SMOOTH
    vec4 light = gathered();
#else
    vec4 light = texelFetch(scene, ivec2(gl_FragCoord.xy), 0);
#endif
    vec3 color = max(light.rgb + texture(spill, at).rgb * bloom, 0.0);
#ifdef TRANSPARENT
    // Light that was only added has no coverage of its own: give it as much as it shines.
    float coverage = clamp(max(light.a, max(color.r, max(color.g, color.b))), 0.0, 1.0);
    color /= max(coverage, 0.001);
#else
    float coverage = 1.0;
    vec2 from = at - 0.5;
    color *= 1.0 - vignette * dot(from, from);
#endif
    vec3 picture = encode(tone(color));
    // Half a step of ordered noise, fixed in the picture: dark gradients do not band.
    float noise = fract(52.9829189 * fract(dot(gl_FragCoord.xy, vec2(0.06711056, 0.00583715))));
    result = vec4((picture + (noise - 0.5) / 255.0) * coverage, coverage);
}
#endif
