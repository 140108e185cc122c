#include "predictor.h"
