// One key light with a soft shadow, a sky, and the target as a lamp. Fragment stages only.
// TAPS: shadow samples. PLAIN: leave out reflections (software rasterisers).
uniform sampler2DShadow shadow_map;

const float SHADOW_RADIUS = 2.2;  // texels of the shadow map
const float PI = 3.14159265;

// 1 lit .. 0 in shadow, at a place of the shadow map. A fixed spiral of taps: no noise, so
// nothing crawls in a video.
float shadow_at(vec3 at) {
    vec2 border = 1.0 - smoothstep(0.42, 0.5, abs(at.xy - 0.5));
    float inside = border.x * border.y;
    if (inside <= 0.0 || at.z >= 1.0) return 1.0;
    vec2 texel = SHADOW_RADIUS / vec2(textureSize(shadow_map, 0));
    float sum = 0.0;
    for (int tap = 0; tap < TAPS; tap++) {
        float reach = sqrt((float(tap) + 0.5) / float(TAPS));
        float angle = float(tap) * 2.399963;
        vec2 offset = texel * reach * vec2(cos(angle), sin(angle));
        sum += texture(shadow_map, vec3(at.xy + offset, at.z - 0.0015));
    }
    return mix(1.0, sum / float(TAPS), inside);
}

float shadow(vec3 world, vec3 surface) {
    float texel_size = 2.0 * focus.w / float(textureSize(shadow_map, 0).x);
    vec4 clip = light_projection * vec4(world + surface * 1.8 * texel_size, 1.0);
    return shadow_at(clip.xyz * 0.5 + 0.5);
}

// What a mirror would show: a gradient, and one softbox high on the left.
vec3 environment(vec3 direction, float roughness) {
    vec3 sky = mix(background_low.rgb, background_high.rgb + 0.35 * ambient.rgb,
                   smoothstep(-0.3, 0.9, direction.y));
    vec2 hit = direction.xz / max(direction.y, 0.05) - vec2(-0.75, 0.45);
    float blur = 0.10 + 1.4 * roughness;
    vec2 box = 1.0 - smoothstep(vec2(1.2, 0.5) - 0.6 * blur, vec2(1.2, 0.5) + blur, abs(hit));
    return sky + key.rgb * (box.x * box.y * step(0.0, direction.y) * 1.8 / (1.0 + 5.0 * roughness));
}

float fresnel(float facing, float base) {
    return base + (1.0 - base) * pow(1.0 - facing, 5.0);
}

// Light of the target: wrapped, falling off softly with distance.
vec3 lamp_light(vec3 world, vec3 surface) {
    if (lamp.w <= 0.0) return vec3(0.0);
    vec3 way = lamp.xyz - world;
    float distance2 = dot(way, way);
    float wrapped = max(0.0, 0.25 + 0.75 * dot(surface, way) * inversesqrt(distance2));
    return lamp_color.rgb * (lamp.w * wrapped * 6.0 / (6.0 + distance2));
}

// Of things mirrored by the floor (the eye is then below it) the foot shows most.
float standing(vec3 world) {
    return eye.y < 0.0 ? exp(-1.6 * world.y) : 1.0;
}

// A satin surface.
vec3 lit(vec3 world, vec3 surface, vec3 albedo, float roughness) {
    vec3 view = normalize(eye.xyz - world);
    float facing = max(dot(surface, view), 0.001);
    float sun = max(dot(surface, light_direction.xyz), 0.0);
    if (sun > 0.0) sun *= shadow(world, surface);
    float near_ground = mix(0.62, 1.0, smoothstep(0.0, 0.55, world.y));
    vec3 sky = ambient.rgb * (mix(0.62, 1.0, surface.y * 0.5 + 0.5) * near_ground);
    vec3 color = albedo * (sky + key.rgb * sun + lamp_light(world, surface));
#ifndef PLAIN
    vec3 halfway = normalize(view + light_direction.xyz);
    float lobe = max(dot(surface, halfway), 0.0);
    float tight = roughness * roughness * roughness * roughness;
    float spread = lobe * lobe * (tight - 1.0) + 1.0;
    float highlight = tight / (PI * spread * spread);
    float attention = exp(-0.008 * dot(world - focus.xyz, world - focus.xyz));  // far ones rest
    color += key.rgb * (sun * highlight * 0.055 * attention);
    float glancing = 0.04 + (max(1.0 - roughness, 0.04) - 0.04) * pow(1.0 - facing, 5.0);
    color += environment(reflect(-view, surface), roughness) * (glancing * near_ground * attention);
#endif
    return color * standing(world);
}
