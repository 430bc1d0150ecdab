void g() { _Pragma("omp target") { } }
