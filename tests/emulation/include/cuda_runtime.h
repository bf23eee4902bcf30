#pragma once

#include "tests/emulation/runtime.h"
