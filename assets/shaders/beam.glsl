#version 330
// The light that joins target and box during a pass: a pyramid of thin fog, marched from the
// front wall to the back one. In the dark it adds its light; before a bright stage, where light
// shows nothing, it tints what lies behind it.
#include "scene.glsl"

#ifdef VERTEX
in vec3 place;  // x, z: -1..1 across, y: 0 at the start .. 1 at the far rectangle
in vec3 start;
in vec3 end;
in vec2 half_extent;
in vec4 color;
out vec3 world;
flat out vec3 apex, axis;
flat out vec2 spread;
flat out vec4 light;
void main() {
    apex = start;
    axis = end - start;
    spread = half_extent;
    light = color;
    vec3 across = vec3(half_extent.x * place.x, 0.0, half_extent.y * place.z);
    world = start + (axis + across) * place.y;
    gl_Position = view_projection * vec4(world, 1.0);
}
#endif

#ifdef FRAGMENT
in vec3 world;
flat in vec3 apex, axis;
flat in vec2 spread;
flat in vec4 light;
layout(location = 0) out vec4 result;

// Across (-1..1 inside) and along (0..1) the beam.
vec3 place_of(vec3 point) {
    vec3 from = point - apex;
    float along = from.y / axis.y;
    vec2 across = (from.xz - axis.xz * along) / (spread * max(along, 0.001));
    return vec3(across.x, along, across.y);
}

// Distance along `ray` from inside the beam to the wall it leaves by. The walls are the planes
// through the apex where one coordinate across is ±1, and the far rectangle.
float leave(vec3 point, vec3 ray) {
    vec3 from = point - apex;
    float nearest = ray.y * axis.y > 0.0 ? (axis.y - from.y) / ray.y : 1e3;
    for (int side = 0; side < 4; side++) {
        float sign_ = side < 2 ? 1.0 : -1.0;
        bool x = side % 2 == 0;
        // f(v) = v.x - (axis.x ± spread.x) / axis.y * v.y is 0 on the wall.
        float slope = ((x ? axis.x : axis.z) + sign_ * (x ? spread.x : spread.y)) / axis.y;
        float value = (x ? from.x : from.z) - slope * from.y;
        float rate = (x ? ray.x : ray.z) - slope * ray.y;
        float reach = -value / rate;
        if (reach > 0.001 && reach < nearest) nearest = reach;
    }
    return nearest;
}

void main() {
    vec3 ray = normalize(world - eye.xyz);
    float length_ = leave(world, ray);
    float sum = 0.0;
    for (int step_ = 0; step_ < STEPS; step_++) {
        vec3 at = place_of(world + ray * length_ * (float(step_) + 0.5) / float(STEPS));
        float core = max(1.0 - dot(at.xz, at.xz), 0.0);
        sum += core * core * smoothstep(0.0, 0.15, at.y) * mix(1.0, 0.7, at.y);
    }
    float thickness = sum / float(STEPS) * length_;
    float dense = 1.0 - exp(-1.5 * thickness);
    float day = smoothstep(0.3, 0.8, dot(background_high.rgb, vec3(1.0 / 3.0)));
    float amount = light.a * mix(dense, 1.7 * (1.0 - pow(1.0 - dense, 5.0)), day);
    result = vec4(light.rgb * amount, amount * day);
}
#endif
