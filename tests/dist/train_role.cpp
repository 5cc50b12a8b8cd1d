// Ranks that train a model of the zoo together, and print a hash of the weights.
//   EBB_TEST_KIND    the model: tests/programs/zoo.hpp
//   EBB_TEST_ROWS    of the data set
//   EBB_TEST_SMALL   in the smallest budget there is
//   EBB_TEST_EXACT   with .allow = same_bits
//   EBB_TEST_FAIL    what goes wrong on rank 1, in a step that is made once more afterwards
#include <fmt/format.h>

#include <cstdlib>
#include <iostream>
#include <limits>

#include "ebb/ebb.hpp"
#include "tests/dist/roles.hpp"
#include "tests/dist/shared_training.hpp"

namespace ebb::test {
namespace {

std::string text(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

// The batch, with something wrong in its first row.
Batch spoilt(const Batch& b, const std::string& how) {
  std::vector<Tensor> values;
  for (std::size_t i = 0; i < b.values().size(); ++i) {
    const Tensor& from = b.values()[i];
    Tensor to = Tensor::uninitialized(from.spec(), "spoilt", Category::data);
    std::copy_n(from.raw(), from.spec().bytes(), const_cast<std::byte*>(to.raw()));
    if (how == "label" && b.names()[i] == "label")
      *reinterpret_cast<std::int32_t*>(const_cast<std::byte*>(to.raw())) = 1000;
    if (how == "nan" && b.names()[i] == "x")
      *reinterpret_cast<float*>(const_cast<std::byte*>(to.raw())) =
          std::numeric_limits<float>::quiet_NaN();
    values.push_back(std::move(to));
  }
  Batch out(b.shared_names(), std::move(values));
  out.set_part(how == "part" ? b.first_row() + 1 : b.first_row(), b.whole_rows());
  return out;
}

}  // namespace

void train_role(const std::string&) {
  dist::World world;
  SharedTraining training(text("EBB_TEST_KIND", "mlp"), world,
                          std::stoll(text("EBB_TEST_ROWS", "43")));
  if (text("EBB_TEST_EXACT", "") == "1") training.options.allow = Allow::same_bits;
  if (text("EBB_TEST_SMALL", "") == "1")
    training.options.memory = ByteSize{training.compiled().plan().minimum};
  auto step = training.compiled();
  const std::string fail = text("EBB_TEST_FAIL", "");
  std::string losses, failure;
  int count = 0;
  for (const Batch& b : training.own.epochs(2)) {
    if (++count == 3 && !fail.empty()) {
      const std::string before = training.hash();
      try {
        step(world.rank() == 1 ? spoilt(b, fail) : b);
        failure = "none";
      } catch (const Error& e) {
        failure = e.what();
      }
      if (training.hash() != before) failure += " AND THE WEIGHTS HAVE CHANGED";
    }
    const Loss loss = step(b);
    losses += fmt::format(" {:a}/{}", loss.sum.item(), loss.count.item());
  }
  const std::string hash = training.hash();
  world.check_same("weights", hash);
  for (const std::string& line : world.gather(failure))
    if (world.first() && !line.empty()) std::cout << "failed: " << line << "\n";
  if (world.first())
    std::cout << hash << losses << "\n"
              << name(step.plan().chosen.label) << ": " << step.plan().chosen.text() << std::endl;
}

}  // namespace ebb::test
