#version 330
// Lettering in the world: quads over a distance field, sharp at any size.
#include "scene.glsl"

#ifdef VERTEX
in vec2 place;  // 0..1
in vec3 origin;
in vec3 right;
in vec3 up;
in vec4 uv;
in vec4 color;
out vec2 at;
flat out vec4 ink;
void main() {
    at = vec2(mix(uv.x, uv.z, place.x), mix(uv.w, uv.y, place.y));
    ink = color;
    gl_Position = view_projection * vec4(origin + right * place.x + up * place.y, 1.0);
    gl_Position.z -= 0.0002 * gl_Position.w;  // lies on a face: win against it
}
#endif

#ifdef FRAGMENT
uniform sampler2D atlas;
uniform float spread;  // texels from the outline to either end of the scale
in vec2 at;
flat in vec4 ink;
layout(location = 0) out vec4 result;
const float OUTLINE = 128.0 / 255.0;
const float WEIGHT = 0.12;  // pixels added to thin strokes at small sizes
void main() {
    vec2 texels_per_pixel = fwidth(at) * vec2(textureSize(atlas, 0));
    float scale = 2.0 * spread / max(0.5 * (texels_per_pixel.x + texels_per_pixel.y), 0.0001);
    float distance_px = (texture(atlas, at).r - OUTLINE) * scale;
    float coverage = clamp(distance_px + 0.5 + WEIGHT, 0.0, 1.0) * ink.a;
#ifdef DEPTH_ONLY
    if (coverage < 0.5) discard;  // only ink hides the glass behind it
    result = vec4(0.0);
#else
    if (coverage <= 0.0) discard;
    result = vec4(ink.rgb * coverage, coverage);
#endif
}
#endif
