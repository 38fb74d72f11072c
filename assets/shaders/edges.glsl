// Lines along the twelve edges of a box, by distance, with an anti-aliased border.
// `inset` is half extent minus |local position| per axis: 0 on a face.
float edge_line(vec3 inset, float width) {
    float smallest = min(inset.x, min(inset.y, inset.z));
    float largest = max(inset.x, max(inset.y, inset.z));
    float edge = inset.x + inset.y + inset.z - smallest - largest;  // second smallest
    float pixel = fwidth(edge);
    float drawn = max(width, 0.8 * pixel);  // never thinner than a pixel: it would break up
    return smoothstep(drawn + 0.6 * pixel, drawn - 0.6 * pixel, edge) * sqrt(width / drawn);
}
