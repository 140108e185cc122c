#include "cpus.h"
