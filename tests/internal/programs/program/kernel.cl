kernel void fill(global int *p, int v) { p[get_global_id(0)] = v; }
