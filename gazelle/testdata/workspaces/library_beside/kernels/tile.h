#pragma once
#include "deep.h"
