// Hairlines: borders of a cellular pattern, spreading from the middle of the front face.
vec3 cell_point(vec3 cell) {
    vec3 mixed = vec3(dot(cell, vec3(127.1, 311.7, 74.7)), dot(cell, vec3(269.5, 183.3, 246.1)),
                      dot(cell, vec3(113.5, 271.9, 124.6)));
    return fract(sin(mixed) * 43758.5453);
}

// 0 whole .. 1 in the middle of a hairline; `amount` 0..1 is how far the cracks have run.
float cracks(vec3 local, vec3 extent, float amount) {
    vec3 at = local * 3.1 + 7.3;
    vec3 base = floor(at);
    float first = 9.0, second = 9.0;
    for (int index = 0; index < 27; index++) {
        vec3 cell = base + vec3(index % 3 - 1, (index / 3) % 3 - 1, index / 9 - 1);
        float reach = distance(at, cell + cell_point(cell));
        if (reach < first) { second = first; first = reach; }
        else second = min(second, reach);
    }
    vec3 from = (local - vec3(0.1, 0.05, 1.0) * extent) / max(extent.x, extent.y);
    float run = smoothstep(0.0, 0.25, amount * 2.1 - length(from));
    float pixel = max(fwidth(second - first), 0.0001);
    float width = 0.05 * run;
    return run * (1.0 - smoothstep(width - pixel, width + pixel, second - first));
}
