// Where data comes from, and how it is dealt out.
#pragma once

#include "ebb/data/batch.hpp"
#include "ebb/data/dataset.hpp"
#include "ebb/data/digits.hpp"
#include "ebb/data/mnist.hpp"
#include "ebb/data/position.hpp"
#include "ebb/data/source.hpp"
#include "ebb/data/text.hpp"
