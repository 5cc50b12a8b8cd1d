#include "ebb/train/build/facts.hpp"

namespace ebb::train {
namespace {

Spec of_one(const Spec& all) { return {Shape(all.shape.dims().subspan(1)), all.dtype}; }

}  // namespace

DataFacts facts_of(const Dataset& data, Task task, std::string_view input,
                   std::string_view target) {
  const BatchSpec spec = data.batch(1).spec();
  DataFacts facts;
  facts.task = task;
  facts.input = input;
  facts.target = target;
  facts.example = of_one(spec[input]);
  facts.answer = of_one(spec[target]);
  facts.rows = data.size();
  return facts;
}

}  // namespace ebb::train
