#include "alloc.h"
