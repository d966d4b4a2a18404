#a = [#b]
#b = [#a]
func.func @f() attributes {x = #a} {
  return
}
