#include "adloader.h"
