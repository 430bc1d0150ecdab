#pragma once
#include "detail.h"
