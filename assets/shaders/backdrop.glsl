#version 330
// The vertical gradient behind everything.
#include "scene.glsl"
#ifdef VERTEX
in vec2 place;
void main() { gl_Position = vec4(place, 1.0, 1.0); }
#endif
#ifdef FRAGMENT
layout(location = 0) out vec4 result;
void main() { result = vec4(background(gl_FragCoord.xy), 1.0); }
#endif
