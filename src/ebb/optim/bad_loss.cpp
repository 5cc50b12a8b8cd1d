#include "ebb/optim/bad_loss.hpp"

namespace ebb::optim {
namespace {

thread_local std::optional<BadLoss> told;

}  // namespace

BadLossScope::BadLossScope(std::optional<BadLoss> bad) : outer_(told) {
  if (bad) told = bad;
}
BadLossScope::~BadLossScope() { told = outer_; }
std::optional<BadLoss> BadLossScope::now() { return told; }

}  // namespace ebb::optim
