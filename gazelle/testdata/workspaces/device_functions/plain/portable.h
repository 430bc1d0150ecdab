#pragma once
#ifndef __HIPCC__
#define __host__
#define __device__
#endif
