#version 330
// The stage floor: barely lighter than the dark behind it, a large faint grid, and no horizon:
// with distance it turns into the background. REFLECTION: mirror what stands on it, weakly.
#include "scene.glsl"

#ifdef VERTEX
in vec2 place;  // -1..1
out vec3 world, shade;  // shade: place in the shadow map, which is flat as the floor is
const float LIFT = 0.05;  // off the floor, where shadows are looked up
void main() {
    world = vec3(focus.x + place.x * 60.0, 0.0, focus.z + place.y * 60.0);
    shade = (light_projection * vec4(world.x, LIFT, world.z, 1.0)).xyz * 0.5 + 0.5;
    gl_Position = view_projection * vec4(world, 1.0);
}
#endif

#ifdef FRAGMENT
#include "lighting.glsl"
uniform sampler2D reflection;
in vec3 world, shade;
layout(location = 0) out vec4 result;
void main() {
    float away = distance(world.xz, focus.xz);
    float presence = exp(-away * away * 0.0055);
    vec3 behind = background(gl_FragCoord.xy);
    if (presence < 0.01) {
        result = vec4(behind, 1.0);
        return;
    }
    float sun = light_direction.y * shadow_at(shade);
    float pool = 0.75 + 0.7 * exp(-away * away * 0.02);  // the key light is aimed at the round
    vec3 up = vec3(0.0, 1.0, 0.0);
    vec3 color = ground_color.rgb * ((ambient.rgb + key.rgb * sun) * pool + lamp_light(world, up));

    vec2 cell = world.xz * 0.5;  // one line every two units
    vec2 pixel = fwidth(cell);
    vec2 line = clamp(1.2 - abs(fract(cell - 0.5) - 0.5) / pixel, 0.0, 1.0);
    line *= clamp(1.0 - 2.5 * pixel, 0.0, 1.0);  // lines closer than pixels melt away
    float lines = max(line.x, line.y) * (1.0 - smoothstep(4.0, 20.0, away));
    color = mix(color, grid_color.rgb, lines * 0.5);
#ifdef REFLECTION
    vec2 at = gl_FragCoord.xy * viewport.zw;
    vec3 view = normalize(eye.xyz - world);
    vec4 mirrored = textureLod(reflection, at, 1.0) * 0.6 + textureLod(reflection, at, 2.5) * 0.4;
    color += mirrored.rgb * (0.07 + 0.05 * pow(1.0 - view.y, 3.0));
#endif
    result = vec4(mix(behind, color, presence), 1.0);
}
#endif
