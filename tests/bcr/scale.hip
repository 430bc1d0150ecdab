__attribute__((global)) void scale(float *data, float factor) {
  data[__builtin_amdgcn_workitem_id_x()] *= factor;
}
