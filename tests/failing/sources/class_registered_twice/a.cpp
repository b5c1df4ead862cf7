#include "brush.h"
