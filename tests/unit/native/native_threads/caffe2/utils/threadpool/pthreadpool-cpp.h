// parallel_unit.h takes nothing of it that counts here.
#pragma once
