// What [data] names, as data sets, and what files that come later have to be read with.
//
//   const train::RunData data = train::open_data(config);
//   train::Model model = train::make_model(config, data.reading.facts);
//   for (const Batch& b : data.train.epochs(3)) step(b);
//
// Rows are read where they lie, or once into memory or a file of the cache (data/row_store.hpp), as
// data.in_memory says, or where that is "auto" the budget: either way the batches are the same.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/data/rows_held.hpp"
#include "ebb/data/tokenizer.hpp"
#include "ebb/exec/other_ways.hpp"
#include "ebb/train/build/facts.hpp"

namespace ebb::train {

// Kept with a model, so that what it is asked about is read as what it has learnt from.
struct Reading {
  DataFacts facts;
  std::string schema = {};                // columns of a table, as their format writes it
  std::vector<std::string> classes = {};  // their names; empty: numbers
  std::shared_ptr<const data::Tokenizer> tokenizer = {};  // of text
};

// shape: to plan with. Files are scanned where nothing else tells how many rows there are, and none of them is kept:
// batches are not to be made.
enum class Opening { rows, shape };

struct RunData {
  Dataset train;                           // shuffled, in batches that are made ahead
  std::optional<Dataset> validation = {};  // in order, in batches
  Reading reading;
  std::uint64_t scanned = 0;            // bytes of files that were read to know what they hold
  std::vector<std::string> notes = {};  // what the owner of the data should hear of, a line each
  data::RowsHeld held = {};             // rows of files, where they were put
  std::uint64_t drawn = 0;              // bytes of rows that were generated
};

RunData open_data(const Config& config, Opening how = Opening::rows);

// Of what a budget is, so many bytes of rows may be in memory where data.in_memory is "auto"; 0: there is none.
std::uint64_t most_in_memory(std::uint64_t budget);
// What these data sets, which rows put there belong to, would take with the rows elsewhere; for HeldOtherwise.
exec::OtherWays other_ways(const data::RowsHeld& held, const std::vector<Dataset>& sets);

// A reading as text, and back: JSON, in which a vocabulary is a text of its own (text/vocabulary_file.hpp). What
// is no such text is an Error that names `name`.
std::string to_text(const Reading& reading);
Reading parse_reading(std::string_view text, const std::string& name);

}  // namespace ebb::train
