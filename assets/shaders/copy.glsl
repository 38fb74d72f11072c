#version 330
// The finished picture onto a window.
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
in vec2 at;
layout(location = 0) out vec4 result;
void main() { result = vec4(texture(source, at).rgb, 1.0); }
#endif
