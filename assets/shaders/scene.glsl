// What every stage knows of the frame. Only mat4 and vec4, so that std140 needs no padding;
// the same fields, in the same order, are `SCENE` in visualizer/render/uniforms.py.
layout(std140) uniform Scene {
    mat4 view_projection;
    mat4 light_projection;
    vec4 eye;              // xyz: position
    vec4 light_direction;  // xyz: towards the key light, unit length
    vec4 key;              // rgb: what a white surface facing the key light returns
    vec4 ambient;          // rgb: the same for the sky
    vec4 background_low;   // rgb
    vec4 background_high;  // rgb
    vec4 ground_color;     // rgb
    vec4 grid_color;       // rgb
    vec4 lamp;             // xyz: centre of the target, w: its glow
    vec4 lamp_color;       // rgb
    vec4 focus;            // xyz: centre of the present round, w: radius
    vec4 viewport;         // x, y: pixels; z, w: their inverse
};

vec3 background(vec2 pixel) {
    float height = pixel.y * viewport.w;
    return mix(background_low.rgb, background_high.rgb, smoothstep(0.0, 1.0, height));
}
