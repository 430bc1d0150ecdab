void h() {
#pragma omp parallel for
  for (int i = 0; i < 3; ++i) ;
}
// #pragma omp target
