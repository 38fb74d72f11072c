// Vertex stage shared by solid blocks, glass and their shadows: a unit box with a bevel of
// constant width, whatever the block's extents.
const float BEVEL = 0.08;  // world units

in vec3 corner;  // -1 or 1 on each axis: which of the eight bevel centres
in vec3 normal;  // unit length

in vec3 center;
in vec3 half_extent;
in float yaw;

mat3 turn(float angle) {
    float c = cos(angle), s = sin(angle);
    return mat3(c, 0.0, -s, 0.0, 1.0, 0.0, s, 0.0, c);
}

// Position in the block's own axes, relative to its centre.
vec3 local_position() {
    float bevel = min(BEVEL, 0.45 * min(half_extent.x, min(half_extent.y, half_extent.z)));
    return corner * (half_extent - bevel) + normal * bevel;
}
