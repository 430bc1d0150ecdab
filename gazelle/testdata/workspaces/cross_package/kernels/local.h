#pragma once
#include "../omp/omp.h"
