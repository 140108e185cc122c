#include "topo.h"
