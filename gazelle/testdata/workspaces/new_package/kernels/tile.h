#pragma once
#include "detail/warp.h"
