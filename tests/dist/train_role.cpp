// A rank that trains a model of the zoo together with others, and prints a hash of the weights.
//   EBB_TEST_KIND    the model: tests/programs/zoo.hpp
//   EBB_TEST_ROWS    of the data set; batches have EBB_TEST_BATCH
//   EBB_TEST_SMALL   in the smallest budget there is
//   EBB_TEST_MICRO   micro-batches of so many rows
#include <fmt/format.h>

#include <cstdlib>
#include <iostream>

#include "ebb/base/sha256.hpp"
#include "ebb/ebb.hpp"
#include "tests/dist/roles.hpp"
#include "tests/programs/zoo.hpp"

namespace ebb::test {
namespace {

std::int64_t number(const char* name, std::int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

std::string hash_of(const std::vector<Variable>& variables) {
  Sha256 sha;
  for (const Variable& v : variables)
    sha.add(std::as_bytes(std::span(v.value().raw(), v.spec().bytes())));
  return sha.hex();
}

}  // namespace

void train_role(const std::string&) {
  dist::World world;
  const char* given = std::getenv("EBB_TEST_KIND");
  const std::string kind = given ? given : "mlp";
  const programs::Subject subject = programs::make(kind, 1);
  optim::AdamW adam(subject.params, {.lr = 1e-3});
  adam.clip_norm(0.5);
  random::seed(7);
  const Dataset data = programs::data_for(kind, number("EBB_TEST_ROWS", 53), 3)
                           .shuffle(1)
                           .batch(number("EBB_TEST_BATCH", 20));
  CompileOptions options{.world = &world, .strategy = dist::mirrored()};
  options.micro_batch = number("EBB_TEST_MICRO", 0);
  if (number("EBB_TEST_EXACT", 0)) options.allow = Allow::same_bits;
  const Dataset own = data.part(world);
  const auto fn = [&](const Batch& b) { return adam.minimize(subject.loss(b)); };
  if (number("EBB_TEST_SMALL", 0)) {
    std::uint64_t smallest = 0;
    { smallest = compile(own.spec(), options, fn).plan().minimum; }
    options.memory = ByteSize{smallest};
  }
  auto step = compile(own.spec(), options, fn);
  std::string losses;
  for (const Batch& b : own.epochs(number("EBB_TEST_EPOCHS", 2))) {
    const Loss loss = step(b);
    losses += fmt::format("{:a}/{} ", loss.sum.item(), loss.count.item());
  }
  std::vector<Variable> all = subject.variables;
  for (const Variable& v : adam.state()) all.push_back(v);
  world.check_same("weights", hash_of(all));
  if (!world.first()) return;
  std::cout << hash_of(all) << " " << losses << "\n"
            << name(step.plan().chosen.label) << ": " << step.plan().chosen.text() << std::endl;
}

}  // namespace ebb::test
