#include "msg.h"
