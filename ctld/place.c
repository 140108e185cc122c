#include "place.h"
