#version 330
// Panels: Dear ImGui's triangles, already in sRGB, over the finished picture.
#ifdef VERTEX
uniform vec4 to_clip;  // xy: scale, zw: offset, from window units
in vec2 position;
in vec2 uv;
in vec4 color;
out vec2 at;
out vec4 ink;
void main() {
    at = uv;
    ink = color;
    gl_Position = vec4(position * to_clip.xy + to_clip.zw, 0.0, 1.0);
}
#endif
#ifdef FRAGMENT
uniform sampler2D source;
in vec2 at;
in vec4 ink;
layout(location = 0) out vec4 result;
void main() { result = ink * texture(source, at); }
#endif
