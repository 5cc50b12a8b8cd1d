// Where data comes from, and how it is dealt out.
#pragma once

#include "ebb/data/batch.hpp"
#include "ebb/data/dataset.hpp"
#include "ebb/data/files/csv.hpp"
#include "ebb/data/files/digits.hpp"
#include "ebb/data/files/file_rows.hpp"
#include "ebb/data/files/images.hpp"
#include "ebb/data/files/jsonl.hpp"
#include "ebb/data/files/mnist.hpp"
#include "ebb/data/files/text.hpp"
#include "ebb/data/position.hpp"
#include "ebb/data/source.hpp"
#include "ebb/data/tokenizer.hpp"
