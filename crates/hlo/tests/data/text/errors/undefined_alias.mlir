func.func @f() attributes {x = #nope} {
  return
}
