// Lines along the twelve edges of a box, by distance, with an anti-aliased border.
// `inset` is half extent minus |local position| per axis: 0 on a face.
float second_smallest(vec3 inset) {
    float smallest = min(inset.x, min(inset.y, inset.z));
    float largest = max(inset.x, max(inset.y, inset.z));
    return inset.x + inset.y + inset.z - smallest - largest;
}

float edge_line(vec3 inset, float width) {
    float edge = second_smallest(inset);
    float pixel = max(fwidth(edge), 0.00001);
    float drawn = max(width, 0.8 * pixel);  // never thinner than a pixel: it would break up
    float inside = 1.0 - smoothstep(drawn - 0.6 * pixel, drawn + 0.6 * pixel, edge);
    return inside * sqrt(width / drawn);
}

// How far the face round the nearest corner of `local` is turned to `eye`: the cosine, -1..1.
float round_the_corner(vec3 local, vec3 extent, vec3 eye) {
    vec3 inset = extent - abs(local);
    vec3 first = step(inset, min(inset.yzx, inset.zxy));             // the face we are on
    vec3 rest = inset + first * 1e6;
    vec3 other = step(rest, min(rest.yzx, rest.zxy)) * sign(local);  // the one round the corner
    return dot(other, normalize(eye - local));
}

// The width a line needs at `local` to look as wide as one that two visible faces share:
// where the face round the corner is turned away from `eye`, this side draws its half too.
float whole_width(float width, vec3 local, vec3 extent, vec3 eye) {
    return width * mix(1.8, 1.0, smoothstep(0.0, 0.5, round_the_corner(local, extent, eye)));
}
