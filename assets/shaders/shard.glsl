#version 330
// A block in pieces. Every shard's path is a closed form of `age` and `seed`: pushed from the
// front, it flies away from the viewer, falls, bounces once, slides and comes to rest.
#include "scene.glsl"

#ifdef VERTEX
in vec3 offset;    // vertex relative to its shard's middle, unit box
in vec3 middle;  // of the shard, unit box (-1..1)
in vec3 face;      // flat normal in the unit box
in vec3 kind;      // x: shard index, y: 1 on fracture faces, z: size 0..1

in vec3 center;
in vec3 half_extent;
in vec4 color;
in float age;
in float seed;
in float fade;

out vec3 world, surface;
flat out vec4 body;
flat out vec2 state;  // fracture face, age

const float GRAVITY = 11.0;  // world units per second squared
const float BOUNCE = 0.28;   // speed kept at the ground

float chance(float index) { return fract(sin(index * 127.1 + 11.7) * 43758.5453); }
vec3 chance3(float index) { return vec3(chance(index), chance(index + 37.3), chance(index + 91.7)); }

mat3 rotation(vec3 axis, float angle) {
    float c = cos(angle), s = sin(angle);
    vec3 t = (1.0 - c) * axis;
    return mat3(c + t.x * axis.x, t.x * axis.y + s * axis.z, t.x * axis.z - s * axis.y,
                t.y * axis.x - s * axis.z, c + t.y * axis.y, t.y * axis.z + s * axis.x,
                t.z * axis.x + s * axis.y, t.z * axis.y - s * axis.x, c + t.z * axis.z);
}

void main() {
    float lot = seed * 17.13 + kind.x * 3.7;
    vec3 start = middle * half_extent;
    vec3 struck = vec3(0.15, 0.1, 1.25) * half_extent;
    vec3 away = normalize(start - struck + (chance3(lot) - 0.5) * 0.5);
    float speed = (1.0 + 2.4 * chance(lot + 5.0)) * mix(1.3, 0.75, kind.z);  // small ones faster
    float toss = mix(2.9, 0.9, kind.z) * chance(lot + 6.0);
    vec3 velocity = away * speed + vec3(0.0, toss, -0.8 - 1.6 * chance(lot + 7.0));

    float rest = min(half_extent.y, 0.5) * mix(0.06, 0.30, kind.z);  // middle height when lying
    float height = max(center.y + start.y - rest, 0.0);
    float landing = (velocity.y + sqrt(velocity.y * velocity.y + 2.0 * GRAVITY * height)) / GRAVITY;
    float rebound = BOUNCE * abs(velocity.y - GRAVITY * landing);
    float hop = 2.0 * rebound / GRAVITY;
    float air = min(age, landing);
    float after = max(age - landing, 0.0);
    float hopping = min(after, hop);

    vec2 glide = velocity.xz * (air + 0.55 * (1.0 - exp(-4.5 * after)) / 4.5);
    float fall = height + velocity.y * air - 0.5 * GRAVITY * air * air;
    float bounce = rebound * hopping - 0.5 * GRAVITY * hopping * hopping;
    vec3 now = vec3(center.x + start.x + glide.x, rest + max(fall, 0.0) + max(bounce, 0.0),
                    center.z + start.z + glide.y);

    float spin = (1.5 + 7.0 * chance(lot + 9.0)) * mix(1.3, 0.5, kind.z);
    mat3 tumble = rotation(normalize(chance3(lot + 2.0) - 0.5), spin * (air + 0.35 * hopping));
    world = now + tumble * (offset * half_extent * (0.985 * mix(0.75, 1.0, fade)));
    world.y = max(world.y, 0.004);
    surface = tumble * normalize(face / half_extent);
    body = vec4(color.rgb, color.a * fade);
    state = vec2(kind.y, age);
    gl_Position = view_projection * vec4(world, 1.0);
#ifdef DEPTH_ONLY
    gl_Position = light_projection * vec4(fade > 0.35 ? world : vec3(0.0, -50.0, 0.0), 1.0);
#endif
}
#endif

#ifdef FRAGMENT
#ifdef DEPTH_ONLY
void main() {}
#else
#include "lighting.glsl"
in vec3 world, surface;
flat in vec4 body;
flat in vec2 state;
layout(location = 0) out vec4 result;
void main() {
    vec3 outward = normalize(surface);
    if (!gl_FrontFacing) outward = -outward;
    float hot = exp(-4.5 * state.y);
    vec3 color = lit(world, outward, mix(body.rgb, body.rgb * 0.72 + 0.05, state.x), 0.35);
    color += body.rgb * hot * mix(0.15, 1.6, state.x);  // fresh fracture faces still shine
    result = vec4(color, 1.0) * body.a;
}
#endif
#endif
