/* The fits of model/quant_lanes.h in what every processor of this kind has. */
#define LANES_NAME(name) name
#include "model/quant_lanes_fit.h"
