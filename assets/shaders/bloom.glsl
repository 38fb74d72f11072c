#version 330
// Light that spills: DOWN halves the picture (keeping only what is brighter than THRESHOLD on
// the first level), otherwise a wide tent adds a level back onto the next larger one.
#ifdef VERTEX
in vec2 place;
out vec2 at;
void main() {
    at = place * 0.5 + 0.5;
    gl_Position = vec4(place, 0.0, 1.0);
}
#endif

#ifdef FRAGMENT
uniform sampler2D source;
uniform vec2 texel;      // of the source
uniform float threshold; // linear; 0 keeps everything
in vec2 at;
layout(location = 0) out vec4 result;

vec3 take(float x, float y) {
    vec3 color = texture(source, at + vec2(x, y) * texel).rgb;
#ifdef DOWN
    float bright = max(color.r, max(color.g, color.b));
    if (threshold > 0.0) color *= max(bright - threshold, 0.0) / max(bright, 0.0001);
    if (threshold > 0.0) color /= 1.0 + 0.15 * max(bright - threshold, 0.0);
#endif
    return color;
}

void main() {
#ifdef DOWN
    vec3 sum = take(-1.0, -1.0) + take(1.0, -1.0) + take(-1.0, 1.0) + take(1.0, 1.0);
    result = vec4(sum * 0.25, 1.0);
#else
    vec3 cross_ = take(-1.0, 0.0) + take(1.0, 0.0) + take(0.0, -1.0) + take(0.0, 1.0);
    vec3 corners = take(-0.7, -0.7) + take(0.7, -0.7) + take(-0.7, 0.7) + take(0.7, 0.7);
    result = vec4(cross_ / 6.0 + corners / 12.0, 1.0);
#endif
}
#endif
